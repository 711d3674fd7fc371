// Serves the app on Deno or Bun, on a free local port, and prints the URL.
import app from './app.mjs'

const where = { hostname: '127.0.0.1', port: 0 }

if ('Deno' in globalThis) {
  const { addr } = Deno.serve({ ...where, onListen: () => {} }, app.fetch)
  console.log(`http://127.0.0.1:${addr.port}`)
} else {
  const { port } = Bun.serve({ ...where, fetch: app.fetch })
  console.log(`http://127.0.0.1:${port}`)
}

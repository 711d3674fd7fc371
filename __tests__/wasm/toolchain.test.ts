/** The compiler that builds the engine as WebAssembly, on systems that need Debian's packages. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-toolchain-'))
})

afterEach(() => rmSync(folder, { recursive: true }))

/**
 * A system whose package lists have one version before an update, and another afterwards. Nothing
 * can be downloaded.
 */
function toolchainOf(before: string, after: string) {
  const commands = {
    rustc: `[ "$1" = -vV ] && echo 'host: none' || echo ${folder}`,
    'apt-get': `[ "$1" = update ] && touch ${folder}/updated && exit; echo "$*" > ${folder}/download; exit 1`,
    'apt-cache': `[ -e ${folder}/updated ] && version=${after} || version=${before}
[ "$1" = policy ] && echo "  Candidate: $version" || echo "Depends: libstd-rust-web-1, libllvm1"`,
  }
  for (const [name, script] of Object.entries(commands)) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  }
  const program = `import { toolchain } from './scripts/wasm/toolchain.mjs'; toolchain('${folder}/cache')`
  const { PATH } = process.env
  const env = { ...process.env, PATH: `${folder}:${PATH}` }
  const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { env, encoding: 'utf8' })
  const requested = join(folder, 'download')
  return { stderr, download: existsSync(requested) ? readFileSync(requested, 'utf8') : undefined }
}

/** The oldest Rust that the engine compiles with. */
const needed = /^rust-version = "1\.(\d+)"$/m.exec(readFileSync('Cargo.toml', 'utf8'))?.[1]

test('old package lists are updated before anything is downloaded', () => {
  const { download } = toolchainOf('1.85.0+dfsg3-1~deb12u3', `1.${needed}.1+dfsg1-1~deb12u2`)
  expect(download).toContain(`rustc-web=1.${needed}.1+dfsg1-1~deb12u2`)
})

test('a compiler that is too old is not downloaded, and the error names the required version', () => {
  const { stderr, download } = toolchainOf('1.85.0+dfsg3-1~deb12u3', '1.85.0+dfsg3-1~deb12u3')
  expect(download).toBeUndefined()
  expect(stderr).toContain(`(Debian's rustc-web is 1.85.0+dfsg3-1~deb12u3, and Rust 1.${needed} is needed)`)
})

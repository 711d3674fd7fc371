export const loader = () => ({ greeting: 'hello' })

export default function Home({ loaderData }) {
  return <h1>{loaderData.greeting}</h1>
}

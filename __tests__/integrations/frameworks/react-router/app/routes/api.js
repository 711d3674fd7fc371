export const loader = () => new Response('hello')

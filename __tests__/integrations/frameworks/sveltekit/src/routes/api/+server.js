export const GET = () => new Response('hello')

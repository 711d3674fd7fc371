export const load = () => ({ greeting: 'hello' })

import { loginsSoFar } from '../actions'

export const GET = () => new Response(`${loginsSoFar()} logins`)

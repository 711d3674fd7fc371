import { defineAction } from 'astro:actions'

let logins = 0

export const server = {
  login: defineAction({ accept: 'form', handler: () => `login ${++logins}` }),
}

export const loginsSoFar = () => logins

import { defineAction } from 'astro:actions'

export const server = {
  login: defineAction({ accept: 'form', handler: () => 'welcome' }),
}

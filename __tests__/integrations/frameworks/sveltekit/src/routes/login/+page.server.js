export const actions = { default: () => ({ welcome: true }) }

/** The app of docs/middleware/nest.md with Nest 12, which is a module of ECMAScript. */
import { testRecipe } from './recipes.js'

testRecipe({
  app: 'nest',
  build: ['../../node_modules/typescript/bin/tsc'],
  server: ['dist/main.js'],
  isProxied: true,
  free: ['/robots.txt'],
  login: { method: 'POST', path: '/login', status: 201 },
  options: 404,
  answersOptions: true,
  refusal: /Too many requests/,
})

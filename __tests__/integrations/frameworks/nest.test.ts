/** The app of docs/middleware/nest.md with Nest 12, which is a module of ECMAScript. */
import { testRecipe } from './recipes.js'

testRecipe({
  app: 'nest',
  server: ['dist/main.js'],
  isProxied: true,
  free: ['/robots.txt'],
  login: { method: 'POST', path: '/login' },
  options: 404,
  answersOptions: true,
  refusal: /Too many requests/,
})

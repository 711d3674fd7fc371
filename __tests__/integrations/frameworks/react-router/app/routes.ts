import { index, type RouteConfig, route } from '@react-router/dev/routes'

export default [
  index('routes/home.jsx'),
  route('about', 'routes/about.jsx'),
  route('login', 'routes/login.jsx'),
  route('api', 'routes/api.js'),
] satisfies RouteConfig

import { index, layout, type RouteConfig, route } from '@react-router/dev/routes'

export default [
  route('about', 'routes/about.jsx'),
  layout('routes/limited.ts', [
    index('routes/home.jsx'),
    route('login', 'routes/login.tsx'),
    route('api', 'routes/api.js'),
  ]),
] satisfies RouteConfig

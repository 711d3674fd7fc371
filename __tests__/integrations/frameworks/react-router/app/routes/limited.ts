import { pageLimits } from '../rate-limit.server'

export { Outlet as default } from 'react-router'
export const middleware = pageLimits

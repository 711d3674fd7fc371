import { Outlet } from 'react-router'
import { pageLimits } from '../rate-limit.server'

export const middleware = pageLimits

export default Outlet

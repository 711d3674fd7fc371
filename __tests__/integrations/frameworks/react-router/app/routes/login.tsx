import { loginLimits } from '../rate-limit.server'

export const middleware = loginLimits

export const action = () => 'welcome'

export const loader = () => null

export default function Login() {
  return (
    <form method="post">
      <button type="submit">Sign in</button>
    </form>
  )
}

import { isRouteErrorResponse, Outlet, Scripts, useRouteError } from 'react-router'

export function Layout({ children }) {
  return (
    <html lang="en">
      <body>
        {children}
        <Scripts />
      </body>
    </html>
  )
}

export default function App() {
  return <Outlet />
}

export function ErrorBoundary() {
  const error = useRouteError()
  return <h1>{isRouteErrorResponse(error) ? error.data : 'Something went wrong'}</h1>
}

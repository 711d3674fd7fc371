/** @type {import('next').NextConfig} */
export default {
  // The addon is loaded from node_modules, and not bundled.
  serverExternalPackages: ['tollgate'],
}

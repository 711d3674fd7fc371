/**
 * The tests that need nothing but Node: `npm run test:embedded`. CI runs them on macOS and Windows, where the
 * servers and the library that steps their clocks cannot be had.
 */
const FILES = [
  '{bad-input,duration,events,flood,limiter,memory-store,turns,types,workers}',
  'middleware/{clients,edge,headers,ip-key,options,responses,types}',
  'operations/bad-input',
  'package/*',
  'policies/calendar-window',
  'wasm/*',
]

module.exports = {
  ...require('./jest.config.cjs'),
  testMatch: FILES.map((file) => `<rootDir>/__tests__/${file}.test.ts`),
}

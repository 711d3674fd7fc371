/**
 * Tests run against the TypeScript sources and the built addon: `npm run jest -- PATTERN` builds
 * stale files.
 */
module.exports = {
  rootDir: '..',
  // Where Jest looks for tests, and for the sources that they depend on.
  roots: ['<rootDir>/__tests__', '<rootDir>/ts'],
  testEnvironment: 'node',
  testMatch: ['**/*.test.ts'],
  // `*.deep.test.ts` draw new schedules, or put real servers under load: npm run test:deep.
  testPathIgnorePatterns: ['/node_modules/', ...(process.env.TOLLGATE_DEEP ? [] : ['[.]deep[.]test[.]ts$'])],
  // The sources import './x.js', the built file's name: here it maps to './x.ts'.
  moduleNameMapper: {
    '^(\\.{1,2}/(?!.*native).*)\\.js$': '$1',
    // Servers accept errors of only one copy of graphql. An app has one copy; here two folders need it.
    '^graphql(/.*)?$': '<rootDir>/node_modules/graphql$1',
  },
  // Nest, in the folder of the root, loads its optional packages from here.
  modulePaths: ['<rootDir>/__tests__/node_modules'],
  transform: { '\\.m?ts$': '<rootDir>/__tests__/transform.cjs' },
  setupFiles: ['<rootDir>/__tests__/quiet.cjs'],
  // Ends a test that hangs. A busy machine needs a minute for tests that take seconds on a quiet one.
  testTimeout: 300_000,
}

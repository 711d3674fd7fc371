/** Tests run against the TypeScript sources and the built addon; `npm test` builds it first. */
module.exports = {
  testEnvironment: 'node',
  testMatch: ['<rootDir>/__tests__/**/*.test.ts'],
  // The sources import './x.js', as Node will find it once it is built: here it is './x.ts'.
  moduleNameMapper: { '^(\\.{1,2}/(?!.*native).*)\\.js$': '$1' },
  transform: { '\\.m?ts$': ['ts-jest', { tsconfig: 'tsconfig.json' }] },
  // A staged package has the same name as this one.
  modulePathIgnorePatterns: ['<rootDir>/stage/'],
  testTimeout: 60_000,
}

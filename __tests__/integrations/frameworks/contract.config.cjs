/** Runs the contract of the HTTP adapters with the frameworks of these packages, which are modules of ECMAScript. */
const { join } = require('node:path')
const base = require('../../jest.config.cjs')

const NEST = join(__dirname, '..', 'node_modules', '@nestjs')

module.exports = {
  ...base,
  rootDir: join(__dirname, '..', '..', '..'),
  moduleNameMapper: {
    '^@nestjs/(common|core|platform-express)$': `${NEST}/$1/index.js`,
    '^@nestjs/(common|core|platform-express)/(.*?)(\\.js)?$': `${NEST}/$1/$2.js`,
    '^\\.\\./frameworks\\.js$': join(__dirname, 'subjects.ts'),
    ...base.moduleNameMapper,
  },
  transform: { '\\.(m?ts|m?js)$': join(__dirname, 'modules.cjs') },
  transformIgnorePatterns: ['/node_modules/(?!(@nestjs|@elysiajs|crossws|elysia|exact-mirror|memoirist|srvx)/)'],
}

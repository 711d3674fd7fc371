/**
 * Runs the models of the code that threads share: see docs/design/testing.md.
 *
 *     npm run models                           all models
 *     npm run models -- NAME                   those whose names contain NAME
 *     npm run models -- --mutations [NAME]...  puts defects into the sources; the models must find each
 */
import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { MUTATIONS } from './models/mutations.mjs'
import { tryMutations } from './test/mutations.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

const [first, ...names] = process.argv.slice(2)
if (first === '--mutations') {
  tryMutations(MUTATIONS, names, () => {
    const { status, stdout, stderr } = models('models::', 'pipe')
    const finding = /^test (\S+) \.\.\. FAILED$/m.exec(stdout)?.[1] ?? /^thread '(\S+)'.*panicked/m.exec(stderr)?.[1]
    if (status !== 0 && finding === undefined) {
      throw new Error(`${stdout}${stderr}`)
    }
    return finding
  })
} else {
  process.exitCode = models(first ?? 'models::', 'inherit').status ?? 1
}

function models(name, stdio) {
  const features = ['--no-default-features', '--features', 'redis,zones']
  return spawnSync('cargo', ['test', '--locked', '--lib', ...features, '--', name], {
    cwd: ROOT,
    stdio,
    encoding: 'utf8',
    maxBuffer: 1 << 30,
    env: {
      ...process.env,
      // Not the settings of other builds: each change of the flags compiles everything anew.
      RUSTFLAGS: '--cfg tollgate_loom',
      CARGO_TARGET_DIR: join(ROOT, 'target', 'models'),
      // A dozen times as fast as without optimisation.
      CARGO_PROFILE_DEV_PACKAGE_LOOM_OPT_LEVEL: '2',
      // A found deadlock stops loom in the middle of a thread, whose traces tell nothing.
      RUST_BACKTRACE: '0',
    },
  })
}

/**
 * Runs the models of the code that threads share: see docs/design/testing.md.
 *
 *     npm run models           all models
 *     npm run models -- NAME   those whose names contain NAME
 */
import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

const [name = 'models::'] = process.argv.slice(2)
const features = ['--no-default-features', '--features', 'redis,zones']
const { status } = spawnSync('cargo', ['test', '--locked', '--lib', ...features, '--', name], {
  cwd: ROOT,
  stdio: 'inherit',
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
process.exitCode = status ?? 1

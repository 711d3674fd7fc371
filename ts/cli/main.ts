#!/usr/bin/env node
import { run } from './run.js'

// A reader that stops early, such as `head`, closes the pipe. That is not a failure.
process.stdout.on('error', endQuietly)
process.stderr.on('error', endQuietly)

function endQuietly(error: NodeJS.ErrnoException): never {
  if (error.code === 'EPIPE') {
    process.exit()
  }
  throw error
}

void run(process.argv.slice(2), process).then((code) => {
  // Not `process.exit`, which would drop output that is still in the pipe's buffer.
  process.exitCode = code
})

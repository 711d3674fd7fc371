#!/usr/bin/env node
import { run } from './run.js'

// A reader that has seen enough, such as `head`, closes the pipe: that is no failure.
process.stdout.on('error', endQuietly)
process.stderr.on('error', endQuietly)

function endQuietly(error: NodeJS.ErrnoException): never {
  if (error.code === 'EPIPE') {
    process.exit()
  }
  throw error
}

void run(process.argv.slice(2), process).then((code) => {
  // Not `process.exit`, which would cut off what a pipe has not taken yet.
  process.exitCode = code
})

/** Tests use short windows to be fast: they need no warning about them. */
const { emitWarning } = process

process.emitWarning = (warning, ...options) => {
  if (options[0]?.code !== 'TOLLGATE_SHORT_DURATION') {
    emitWarning.call(process, warning, ...options)
  }
}

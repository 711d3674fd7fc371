/** Tests have short windows, so that they are short themselves: they need not be warned of them. */
const { emitWarning } = process

process.emitWarning = (warning, ...options) => {
  if (options[0]?.code !== 'TOLLGATE_SHORT_DURATION') {
    emitWarning.call(process, warning, ...options)
  }
}

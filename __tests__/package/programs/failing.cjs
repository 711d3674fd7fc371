// A program that prints the package's loading error.
let error = new Error('it loaded')
try {
  require('tollgate')
} catch (reason) {
  error = reason
}

const causes = []
for (let { cause } = error; cause; cause = cause.cause) {
  causes.push(cause.message)
}
console.log(JSON.stringify({ name: error.name, message: error.message, causes }))

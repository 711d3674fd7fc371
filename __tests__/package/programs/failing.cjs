// A program that tells how the package failed to load.
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

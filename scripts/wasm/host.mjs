// The imports of the glue. The code that starts the engine supplies the functions.
let host

export function setHost(given) {
  host = given
}

export const randomBits = () => host.randomBits()

export const offsetAt = (zone, epochSeconds) => host.offsetAt(zone, epochSeconds)

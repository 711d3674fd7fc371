// What the glue imports: who starts the engine says who answers.
let host

export function setHost(given) {
  host = given
}

export const randomBits = () => host.randomBits()

export const offsetAt = (zone, epochSeconds) => host.offsetAt(zone, epochSeconds)

/** The array, or a larger copy if it has no such index. */
export function grown<A extends Float64Array | Uint8Array | Uint32Array>(array: A, index: number): A {
  if (index < array.length) {
    return array
  }
  const larger = new (array.constructor as new (length: number) => A)(index * 2)
  larger.set(array)
  return larger
}

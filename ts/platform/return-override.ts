/** Makes a subclass add its private fields to an existing object: a constructor may return any object. */
export class ReturnOverride {
  constructor(object: object) {
    // biome-ignore lint/correctness/noConstructorReturn: that is its purpose.
    return object
  }
}

/** The bytes of the engine. */
export declare const size: number
/** The engine, as raw deflate in Base64. */
export declare const deflated: string

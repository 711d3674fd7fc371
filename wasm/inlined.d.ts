/** The engine. */
export declare const hexadecimal: string

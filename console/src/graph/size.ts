// Of a thing in the graph, in pixels.
export const WIDTH = 196;
export const HEIGHT = 46;

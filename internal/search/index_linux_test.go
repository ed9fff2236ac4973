package search_test

// toldOfChanges: the system tells of every change before a search that follows.
const toldOfChanges = true

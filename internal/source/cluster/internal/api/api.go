// Package api reaches the API of one cluster: how it is configured, which requests are made, within which limits, and what
// can go wrong on the way. It knows the kinds that are read, and nothing of what was read before.
//
// Lists are asked for over HTTP/1.1 and read with pauses of some milliseconds, both of which cost less; watches share a
// connection of HTTP/2 if the server has it.
//
// Caveat: client-go writes to klog when a token file cannot be read.
package api

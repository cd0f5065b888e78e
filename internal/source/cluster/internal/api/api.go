// Package api connects to the API of one cluster. It defines the configuration, the requests, their limits and their
// errors. It knows the kinds that are read, but nothing of earlier answers.
//
// Lists use HTTP/1.1, which costs less; watches share an HTTP/2 connection if the server supports it.
//
// Caveat: client-go writes to klog when a token file cannot be read.
package api

// Package decode decodes what the Kubernetes API sends: lists, streams of events and single objects, in JSON and in
// protobuf. It makes no request, logs nothing and has no clock.
//
// [List] walks a list without decoding its items, so that the caller need not decode items that it already knows. It
// reads the body through a [Window], which never holds the whole body. [Events] does the same for the stream of a
// watch. [Object] decodes one item of either; only it turns bytes into objects.
//
// The package does not trust its input. A body that ends early, is of another kind or lies about its lengths is an
// error, and costs no more memory than its size.
package decode

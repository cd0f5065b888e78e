// Package decode makes objects of the bytes that the Kubernetes API sends: lists, streams of events and single objects, in
// JSON and in protobuf. It makes no request, logs nothing and has no clock.
//
// [List] walks a list without decoding its items, so that the caller can leave those undecoded that it knows already; the
// body is read through a [Window], which never holds it as a whole. [Events] does the same for the stream of a watch.
// [Object] decodes one item of either; it is the only way from bytes to objects.
//
// What arrives is not trusted. A body that ends early, is of another kind or lies about its lengths is an error, and costs
// no more memory than its size.
package decode

// Package forward reaches pods from outside of their cluster, as kubectl port-forward does, but without a listener on this machine:
// [Pod.Dial] opens a connection to a port of a pod through the API server, and nobody else on this machine can use it.
//
// A [Kubeconfig] names the clusters by their contexts, [Kubeconfig.Open] makes the client of one, and [Cluster.Pods] lists pods by their labels.
//
// [Cluster.Object] reads single objects.
//
// # Rights
//
// A user needs the verb list on pods, and get and create on pods/portforward: get for WebSockets, create for SPDY, which is tried
// when the API server does not speak WebSockets here.
//
// # Guarantees
//
// Every call ends when its context does, whatever the API server, the kubelet or a credential plugin does meanwhile. Answers of the
// API server are limited in size. Names in errors are as the server sent them: whoever shows them on a terminal has to escape them.
package forward

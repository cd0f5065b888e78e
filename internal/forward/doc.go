// Package forward connects to pods from outside their cluster, like kubectl port-forward, but without a listener on this machine:
// [Pod.Dial] opens a connection to a port of a pod through the API server, and no other process on this machine can use it.
//
// A [Kubeconfig] lists clusters by context, [Kubeconfig.Open] returns the client for one, and [Cluster.Pods] lists pods by label.
//
// [Pod.Exec] runs a command in a pod, and [Cluster.WhoAmI] asks who the user is.
//
// # Rights
//
// A user needs the verb list on pods, and get and create on pods/portforward: get for WebSockets, create for SPDY, the fallback
// if the API server does not support WebSockets here. [Pod.Exec] needs the same verbs on pods/exec.
//
// # Guarantees
//
// Every call returns when its context ends, even if the API server, the kubelet or a credential plugin hangs. Errors
// contain names as the server sent them: escape them before showing them on a terminal.
package forward

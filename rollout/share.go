package rollout

// Member identifies a data plane for shares of the fleet, such as "Exec:25%".
//
// A share must affect the same proxies as long as it is set. Each rollout of a Deployment renames its pods, so a share by pod
// names would change every time. Nodes keep their names, and so do the pods of a StatefulSet.
type Member struct {
	By   string `json:"by"` // "node" or "pod"
	Name string `json:"name"`
}

// MemberOf returns the node if its name is known, else the pod.
func MemberOf(node, pod string) Member {
	if node == "" {
		return Member{"pod", pod}
	}
	return Member{"node", node}
}

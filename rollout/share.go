package rollout

import (
	"errors"
	"fmt"
	"strings"
)

// ShareBy selects which name of a data plane decides whether it is in a share of the fleet, such as "Exec:25%".
//
// A share must affect the same proxies as long as it is set. Each rollout of a Deployment renames its pods, so a share by pod
// names would change every time. Nodes keep their names, and so do the pods of a StatefulSet.
type ShareBy uint8

// The values of ShareBy.
const (
	ShareByAuto ShareBy = iota // the node if its name is known, else the pod
	ShareByNode                // the node: all pods of a node are in, or none
	ShareByPod                 // the pod: for a StatefulSet, whose pods keep their names but not their nodes
)

var shareByNames = [...]string{ShareByAuto: "auto", ShareByNode: "node", ShareByPod: "pod"}

// String returns the spelling of help.
func (b ShareBy) String() string {
	if int(b) < len(shareByNames) {
		return shareByNames[b]
	}
	return fmt.Sprintf("ShareBy(%d)", uint8(b))
}

// MarshalText returns the spelling of help.
func (b ShareBy) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// ParseShareBy parses auto, node or pod in upper or lower case.
func ParseShareBy(s string) (ShareBy, error) {
	for b, n := range shareByNames {
		if strings.EqualFold(n, s) {
			return ShareBy(b), nil
		}
	}
	return ShareByAuto, fmt.Errorf("share by %s: want auto, node or pod", clip(s))
}

// Member identifies a data plane for shares of the fleet.
type Member struct {
	By   ShareBy `json:"by"` // ShareByNode or ShareByPod
	Name string  `json:"name"`
}

// Member selects the relevant name of a data plane; an empty name is unknown. The error says which name is missing.
func (b ShareBy) Member(node, pod string) (Member, error) {
	switch {
	case b == ShareByNode && node == "":
		return Member{}, errors.New("the name of the node is not known")
	case b == ShareByPod || node == "":
		return Member{ShareByPod, pod}, nil
	}
	return Member{ShareByNode, node}, nil
}

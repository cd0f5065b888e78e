package rollout

import (
	"errors"
	"fmt"
	"strings"
)

// ShareBy says which name of a data plane decides whether it is in a share of the fleet, such as that of "Exec:25%".
//
// A share is to hit the same proxies for as long as it stands. A Deployment gives its pods new names with each rollout, so that the
// names of pods would draw another share every time. Nodes keep their names, and so do the pods of a StatefulSet.
type ShareBy uint8

// What a share goes by.
const (
	ShareByAuto ShareBy = iota // the node, where its name is known, else the pod
	ShareByNode                // the node: all pods of one node are in, or none
	ShareByPod                 // the pod: for a StatefulSet, whose pods keep their names and change their nodes
)

var shareByNames = [...]string{ShareByAuto: "auto", ShareByNode: "node", ShareByPod: "pod"}

// String gives the spelling of help.
func (b ShareBy) String() string {
	if int(b) < len(shareByNames) {
		return shareByNames[b]
	}
	return fmt.Sprintf("ShareBy(%d)", uint8(b))
}

// MarshalText gives the spelling of help.
func (b ShareBy) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// ParseShareBy reads auto, node or pod in upper or lower case.
func ParseShareBy(s string) (ShareBy, error) {
	for b, n := range shareByNames {
		if strings.EqualFold(n, s) {
			return ShareBy(b), nil
		}
	}
	return ShareByAuto, fmt.Errorf("share by %s: want auto, node or pod", clip(s))
}

// Member is a data plane as a share of the fleet sees it.
type Member struct {
	By   ShareBy `json:"by"` // ShareByNode or ShareByPod
	Name string  `json:"name"`
}

// Member picks the name that counts of those of a data plane; an empty one is not known. The error says which name is missing.
func (b ShareBy) Member(node, pod string) (Member, error) {
	switch {
	case b == ShareByNode && node == "":
		return Member{}, errors.New("the name of the node is not known")
	case b == ShareByPod || node == "":
		return Member{ShareByPod, pod}, nil
	}
	return Member{ShareByNode, node}, nil
}

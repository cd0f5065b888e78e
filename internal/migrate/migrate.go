// Package migrate creates a kustomize overlay that runs routesrv beside a Deployment of Skipper's route server. For everything that
// the overlay does not carry over it gives the reason.
//
// [Parse] returns the objects, [Make] the files of the overlay. Make is pure: it reads and writes nothing. The overlay is the base with
// patches. The old Deployment is one of them, without the fields in which routesrv has to follow the base. It runs in the same
// namespace under different names, so it has no traffic at first. Its pods have the labels of the old ones except for one, by which the
// old Deployment and its Services select. Changing that label in the selector of the Service switches the traffic, and changing it back
// reverts that.
package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/routesrv/routesrv/internal/config"
)

// Names and paths of the base of the overlay.
const (
	baseName  = "routesrv" // of the Deployment, the container, the Service and the rights
	peersName = "routesrv-peers"
	stateDir  = "/var/lib/routesrv"
)

// Options configure the overlay.
type Options struct {
	// Base is the path or URL of the folder deploy/kustomize/base, as kustomization.yaml names it.
	Base string
	// Prefix begins the names of all objects. Empty derives it from the name of the old Deployment.
	Prefix string
	// Image is the image of routesrv, NAME[:TAG][@DIGEST]. Empty keeps the image of the base.
	Image string
	// Container is the container of the old Deployment that is the route server. Empty finds it.
	Container string
	// LeaveOut are flags, without dashes, that are not carried over.
	LeaveOut []string
	// Monitoring is the namespace of Prometheus, for the NetworkPolicy.
	Monitoring string
}

// Overlay is the result of Make.
type Overlay struct {
	// Files are the contents by name, in one folder.
	Files map[string][]byte
	// Warnings are the warnings of --check-config for the old arguments.
	Warnings []config.Warning
	// NotCarried is what the overlay does not carry over, as in NOTES.md.
	NotCarried []Note
}

// Note is something that is not carried over, or is carried over differently.
type Note struct{ What, Why string }

// migration is one run of Make.
type migration struct {
	Options
	in        *Input
	pod       *corev1.PodSpec   // of the old Deployment
	container *corev1.Container // of the old Deployment

	arguments arguments
	labels    labelling
	notes     []Note
}

// Make creates the overlay. If the old arguments cannot be used, it returns the error of --check-config.
func Make(in *Input, o Options) (*Overlay, error) {
	m := &migration{Options: o, in: in, pod: &in.Deployment.Spec.Template.Spec}
	if err := m.begin(); err != nil {
		return nil, err
	}
	warnings, err := m.readArguments()
	if err != nil {
		return &Overlay{Warnings: warnings}, err
	}
	if err := m.label(); err != nil {
		return nil, err
	}
	files, err := m.files()
	if err != nil {
		return nil, err
	}
	return &Overlay{Files: files, Warnings: warnings, NotCarried: m.notes}, nil
}

// begin completes the options and finds the container of the route server.
func (m *migration) begin() error {
	if m.Base == "" {
		return errors.New("no base")
	}
	if m.Prefix == "" {
		m.Prefix = strings.TrimSuffix(strings.TrimSuffix(m.in.Deployment.Name, baseName), "-") + "-next-"
		m.Prefix = strings.TrimPrefix(m.Prefix, "-")
	}
	if longest := m.Prefix + peersName; len(validation.IsDNS1035Label(longest)) > 0 {
		return fmt.Errorf("prefix %q: %q is no name of a Service: want at most 63 small letters, digits and dashes, a letter first", m.Prefix, longest)
	}
	if m.name() == m.in.Deployment.Name {
		return fmt.Errorf("prefix %q: the new Deployment would replace the old one, %s: want another prefix", m.Prefix, m.in.Deployment.Name)
	}
	m.Monitoring = cmp.Or(m.Monitoring, "monitoring")
	c, err := pick("container", m.Container, m.pod.Containers, func(c corev1.Container) string { return c.Name }, isRouteServer)
	if err != nil {
		return fmt.Errorf("%w of Deployment %s", err, m.in.Deployment.Name)
	}
	m.container = &c
	for _, other := range slices.Concat(m.pod.Containers, m.pod.InitContainers) {
		if other.Name != c.Name {
			m.note("it is not the route server. If you need it, add it to deployment.yaml", "container `%s`", other.Name)
		}
	}
	return nil
}

// name returns the name of the new Deployment and its Service.
func (m *migration) name() string { return m.Prefix + baseName }

// note records what is not carried over.
func (m *migration) note(why, format string, args ...any) {
	m.notes = append(m.notes, Note{fmt.Sprintf(format, args...), why})
}

// isRouteServer reports whether the name of the program is in the command or is the first argument.
func isRouteServer(c corev1.Container) bool {
	words := slices.Concat(c.Command, c.Args)
	return len(words) > 0 && isProgram(words[0])
}

func isProgram(word string) bool { return word == baseName || strings.HasSuffix(word, "/"+baseName) }

// sorted returns the keys of a map, sorted.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

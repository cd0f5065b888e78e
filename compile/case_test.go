package compile_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/manifests"
)

// optionNames are the options of cases whose name is not the name of the field in rules.Options. Cases have the names of the
// conformance cases, which are mostly those of Skipper's flags.
var optionNames = map[string]string{
	"backend-traffic-algorithm": "TrafficAlgorithm", "default-lb-algorithm": "DefaultLBAlgorithm", "eastWestRangePredicatesAppend": "EastWestRangePredicates",
	"enable-kubernetes-endpointslices": "EndpointSlices", "enableExternalNames": "ExternalNames", "force-kubernetes-service": "ForceService",
	"forward-backend-url": "ForwardBackendURL", "healthcheck-cidrs": "HealthcheckCIDRs", "kubernetes-application-annotation-label": "ApplicationLabel",
	"kubernetes-ingress-class": "IngressClass", "kubernetesAnnotationFiltersAppend": "AnnotationFiltersAppend",
	"kubernetesAnnotationPredicates":                 "AnnotationPredicates",
	"kubernetesEastWestRangeAnnotationFiltersAppend": "EastWestRangeAnnotationFilters",
	"kubernetesEastWestRangeAnnotationPredicates":    "EastWestRangeAnnotationPredicates",
	"oauth-callback-path":                            "OAuthCallbackPath", "path-mode": "PathMode", "refuse-filters": "RefuseFilters", "reverse-source": "ReverseSource",
	"routegroup-class": "RouteGroupClass", "topology-zone": "TopologyZone",
}

// processing are the options of cases that rules.Options has in a parsed form.
type processing struct {
	Prepend string   `json:"default-filters-prepend"`
	Append  string   `json:"default-filters-append"`
	Edit    []string `json:"edit-route"`  // pairs of regexp and replacement
	Clone   []string `json:"clone-route"` // pairs of regexp and replacement
}

// parseOptions returns the options of a case. Unknown keys are ignored, as the format requires.
func parseOptions(text []byte) (o rules.Options, err error) {
	var byName map[string]json.RawMessage
	var more processing
	if err := errors.Join(yaml.Unmarshal(text, &byName), yaml.Unmarshal(text, &more)); err != nil {
		return o, fmt.Errorf("options: %w", err)
	}
	byField := make(map[string]json.RawMessage)
	for name, value := range byName {
		byField[cmp.Or(optionNames[name], name)] = value
	}
	fields, err := json.Marshal(byField)
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(fields, &o); err != nil {
		return o, fmt.Errorf("options: %w", err)
	}
	o.OAuthGrantCallback = o.OAuthCallbackPath != ""
	if o.TrafficAlgorithm, err = rules.ParseTrafficAlgorithm(string(o.TrafficAlgorithm)); err != nil {
		return o, err
	}
	if o.PathMode, err = rules.ParsePathMode(string(o.PathMode)); err != nil {
		return o, err
	}
	return o, more.into(&o)
}

func (p processing) into(o *rules.Options) error {
	if p.Prepend != "" || p.Append != "" {
		pre, err := eskip.ParseFilters(p.Prepend)
		if err != nil {
			return err
		}
		post, err := eskip.ParseFilters(p.Append)
		if err != nil {
			return err
		}
		o.DefaultFilters = &eskip.DefaultFilters{Prepend: pre, Append: post}
	}
	if len(p.Edit)%2 != 0 || len(p.Clone)%2 != 0 {
		return errors.New("edit-route, clone-route: want a replacement for each regexp")
	}
	for rule := range slices.Chunk(p.Edit, 2) {
		o.EditRoutes = append(o.EditRoutes, eskip.NewEditor(regexp.MustCompile(rule[0]), rule[1]))
	}
	for rule := range slices.Chunk(p.Clone, 2) {
		o.CloneRoutes = append(o.CloneRoutes, eskip.NewClone(regexp.MustCompile(rule[0]), rule[1]))
	}
	return nil
}

// parseCluster returns the snapshot of a stream of objects.
func parseCluster(stream []byte) (*kube.Snapshot, error) {
	s := &kube.Snapshot{Revision: 1, Newest: 1}
	for _, doc := range manifests.Split(stream) {
		text, err := manifests.ToJSON(doc)
		if err == nil {
			err = addObject(s, text)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", doc.Line, err)
		}
	}
	return s, nil
}

// addObject adds an object, or the items of a list, to the snapshot.
func addObject(s *kube.Snapshot, text []byte) error {
	var head struct {
		Kind  kube.Kind
		Items []json.RawMessage
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	for _, item := range head.Items {
		if err := addObject(s, item); err != nil {
			return err
		}
	}
	if head.Kind == "List" || head.Kind == "" {
		return nil
	}
	o, err := kube.DecodeJSON(head.Kind, text)
	if err != nil {
		s.Bad = append(s.Bad, kube.BadObject{Ref: kube.SalvageRef(head.Kind, text), Err: err})
		return nil
	}
	s.Add(o)
	return nil
}

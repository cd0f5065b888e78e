package eskip

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

var errNull = errors.New("null in a list of predicates or filters")

type jsonRoute struct {
	ID         string       `json:"id,omitempty"`
	Backend    *jsonBackend `json:"backend,omitempty"`
	Predicates []*Predicate `json:"predicates,omitempty"`
	Filters    []*Filter    `json:"filters,omitempty"`
}

type jsonBackend struct {
	Type      string   `json:"type"`
	Address   string   `json:"address,omitempty"`
	Algorithm string   `json:"algorithm,omitempty"`
	Endpoints []string `json:"endpoints,omitempty"`
}

type jsonCall struct {
	Name string        `json:"name"`
	Args []interface{} `json:"args,omitempty"`
}

// marshal is json.Marshal without escaping <, > and &, which are common in routes.
func marshal(v interface{}) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// MarshalJSON returns an object with the name and, if there are any, the args.
func (p *Predicate) MarshalJSON() ([]byte, error) { return marshal(jsonCall{p.Name, p.Args}) }

// MarshalJSON returns an object with the name and, if there are any, the args.
func (f *Filter) MarshalJSON() ([]byte, error) { return marshal(jsonCall{f.Name, f.Args}) }

// MarshalJSON returns the [Canonical] form of r without empty values. It does not escape <, > and &, but json.Marshal escapes
// them in the result: use a json.Encoder with SetEscapeHTML(false) to keep them.
func (r *Route) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	c := Canonical(r)
	out := jsonRoute{ID: c.Id, Predicates: c.Predicates, Filters: c.Filters}
	if c.BackendType != NetworkBackend || c.Backend != "" {
		out.Backend = &jsonBackend{
			Type: c.BackendType.String(), Address: c.Backend, Algorithm: c.LBAlgorithm,
			Endpoints: each(c.LBEndpoints, func(ep *LBEndpoint) string { return ep.StringWithZone() }),
		}
	}
	return marshal(out)
}

// UnmarshalJSON reads the output of MarshalJSON. It replaces the whole of r with all predicates in Predicates, and does not
// validate endpoints. Invalid JSON, an unknown type of backend, or a null in a list are errors.
func (r *Route) UnmarshalJSON(b []byte) error {
	var in jsonRoute
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	out := Route{Id: in.ID}
	if in.Backend != nil {
		t, err := BackendTypeFromString(in.Backend.Type)
		if err != nil {
			return err
		}
		out.BackendType = t
		switch t {
		case NetworkBackend:
			out.Backend = in.Backend.Address
		case LBBackend:
			out.LBAlgorithm = in.Backend.Algorithm
			out.LBEndpoints = NewLBEndpoints(in.Backend.Endpoints)
		}
	}
	if slices.Contains(in.Predicates, nil) || slices.Contains(in.Filters, nil) {
		return errNull
	}
	out.Predicates, out.Filters = append(out.Predicates, in.Predicates...), append(out.Filters, in.Filters...)
	*r = out
	return nil
}

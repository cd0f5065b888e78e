package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
)

const (
	// RouteGroupVersion is the API group and version of RouteGroups.
	RouteGroupVersion = "zalando.org/v1"
	// DiscoveryPath is where the API lists the resources of that group; GroupsPath is where it lists all groups.
	DiscoveryPath = "/apis/" + RouteGroupVersion
	GroupsPath    = "/apis"
)

// getJSON returns the body of a small answer in JSON.
func (c *Client) getJSON(ctx context.Context, path string) (body []byte, err error) {
	err = c.Get(ctx, Request{
		path: path, accept: decode.MediaJSON,
		missing: `the verb "get" on the non-resource URL "` + path + `", as the cluster role system:discovery does`,
	}, func(resp *Response) error {
		if resp.Media != decode.MediaJSON {
			return fmt.Errorf("content type %q: want %s", resp.Media, decode.MediaJSON)
		}
		r, err := resp.Open()
		if err == nil {
			body, err = io.ReadAll(r)
		}
		return err
	})
	return body, err
}

// ServesRouteGroups asks discovery whether the cluster has RouteGroups. A cluster that never had them answers 404;
// see [IsNotFound].
func (c *Client) ServesRouteGroups(ctx context.Context) (bool, error) {
	body, err := c.getJSON(ctx, DiscoveryPath)
	if err != nil {
		return false, err
	}
	// A proxy on the way could answer 200 with unrelated JSON; that must not remove the RouteGroups.
	var list struct {
		Kind         string `json:"kind"`
		GroupVersion string `json:"groupVersion"`
		Resources    []struct {
			Name string `json:"name"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return false, Errorf(ReasonBody, "answer to %s: %w", DiscoveryPath, err)
	}
	switch {
	case list.Kind != "APIResourceList" || list.GroupVersion != RouteGroupVersion:
		return false, Errorf(ReasonBody, "answer to %s: it is a %.40q of the group version %.40q, want an APIResourceList of %s",
			DiscoveryPath, list.Kind, list.GroupVersion, RouteGroupVersion)
	case list.Resources == nil:
		return false, Errorf(ReasonBody, "answer to %s: no list of resources", DiscoveryPath)
	}
	for _, r := range list.Resources {
		if r.Name == "routegroups" {
			return true, nil
		}
	}
	return false, nil
}

// ListsRouteGroups reports whether the list of all API groups contains the group of RouteGroups.
func (c *Client) ListsRouteGroups(ctx context.Context) (bool, error) {
	body, err := c.getJSON(ctx, GroupsPath)
	if err != nil {
		return false, err
	}
	var list struct {
		Kind   string `json:"kind"`
		Groups []struct {
			Versions []struct {
				GroupVersion string `json:"groupVersion"`
			} `json:"versions"`
		} `json:"groups"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return false, Errorf(ReasonBody, "answer to %s: %w", GroupsPath, err)
	}
	if list.Kind != "APIGroupList" || len(list.Groups) == 0 {
		return false, Errorf(ReasonBody, "answer to %s: it is a %.40q with %d groups, want an APIGroupList with some",
			GroupsPath, list.Kind, len(list.Groups))
	}
	for _, g := range list.Groups {
		for _, v := range g.Versions {
			if v.GroupVersion == RouteGroupVersion {
				return true, nil
			}
		}
	}
	return false, nil
}

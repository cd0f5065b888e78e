// Command dashboard writes the dashboard for Grafana, deploy/kustomize/components/dashboard/routesrv.json. With -check it writes
// nothing and fails if the file does not match the code. panels.go defines the panels.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

// file is the path of the dashboard from the root of the repository.
const file = "deploy/kustomize/components/dashboard/routesrv.json"

func main() {
	check := flag.Bool("check", false, "fail if the file does not match the code, and write nothing")
	flag.Parse()
	if err := run(file, *check); err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

func run(name string, check bool) error {
	want, err := render(rows())
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(name, want, 0o644)
	}
	have, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, want) {
		return fmt.Errorf("%s does not match the code: run make docs", name)
	}
	return nil
}

// object is a JSON object; its keys are sorted when it is written.
type object map[string]any

// source returns the data source that is selected at the top of the dashboard.
func source() object { return object{"type": "prometheus", "uid": "${datasource}"} }

// render returns the dashboard: rows of panels in a grid with 24 columns.
func render(rows []row) ([]byte, error) {
	var panels []object
	id, y := 0, 0
	for _, r := range rows {
		id++
		panels = append(panels, object{"id": id, "type": "row", "title": r.title, "collapsed": false, "panels": []object{},
			"gridPos": object{"x": 0, "y": y, "w": 24, "h": 1}})
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			w, h := p.size()
			if x+w > 24 {
				x, y = 0, y+height
			}
			id++
			panels = append(panels, p.render(id, object{"x": x, "y": y, "w": w, "h": h}))
			x, height = x+w, h
		}
		y += height
	}
	text, err := json.MarshalIndent(object{
		"uid": "routesrv", "title": "routesrv", "tags": []string{"routesrv", "ingress"}, "schemaVersion": 39, "version": 1,
		"editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "", "time": object{"from": "now-3h", "to": "now"},
		"description": "Route servers and data planes. Each alert leads to the runbook; the series are in docs/metrics.md.",
		"templating":  object{"list": variables()}, "panels": panels, "annotations": object{"list": []object{}}, "links": []object{},
	}, "", " ")
	return append(text, '\n'), err
}

// variables returns the selections at the top. A series without the label cluster or namespace belongs to "All".
func variables() []object {
	list := []object{{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": object{}, "hide": 0}}
	for _, v := range []struct{ name, label, query string }{
		{"cluster", "Cluster", "label_values(routesrv_table_routes, cluster)"},
		{"namespace", "Namespace", `label_values(routesrv_table_routes{cluster=~"$cluster"}, namespace)`},
		{"instance", "Instance", `label_values(routesrv_table_routes{cluster=~"$cluster",namespace=~"$namespace"}, instance)`},
	} {
		list = append(list, object{
			"name": v.name, "label": v.label, "type": "query", "datasource": source(), "query": object{"query": v.query, "refId": v.name},
			"definition": v.query, "refresh": 2, "sort": 1, "includeAll": true, "multi": true, "allValue": ".*", "hide": 0,
			"current": object{"text": "All", "value": "$__all"},
		})
	}
	return list
}

// size returns the width and height in the grid.
func (p panel) size() (w, h int) {
	switch {
	case p.stat:
		return 4, 4
	case p.wide:
		return 12, 8
	}
	return 8, 8
}

func (p panel) render(id int, at object) object {
	kind := "timeseries"
	defaults := object{"unit": p.unit, "min": 0, "custom": object{"fillOpacity": 8, "lineWidth": 1, "showPoints": "never"}}
	options := object{"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	if p.stat {
		kind = "stat"
		defaults = object{"unit": p.unit}
		options = object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "colorMode": "value", "graphMode": "area"}
	}
	if p.bad > 0 {
		defaults["thresholds"] = object{"mode": "absolute", "steps": []object{{"color": "green", "value": nil}, {"color": "red", "value": p.bad}}}
		if !p.stat {
			defaults["custom"].(object)["thresholdsStyle"] = object{"mode": "line"}
		}
	}
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source(), "expr": q.expr, "legendFormat": q.legend,
			"editorMode": "code", "range": !p.stat, "instant": p.stat})
	}
	return object{"id": id, "type": kind, "title": p.title, "description": p.says, "datasource": source(), "gridPos": at,
		"targets": targets, "fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "options": options}
}

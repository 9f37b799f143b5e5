{{/*
The objects of a manifest, as a JSON list in a map's `objects`, each in the release's namespace. Give a list: the context, and the
manifest's name.
*/}}
{{- define "brickyard.manifest" -}}
{{- $context := first . -}}
{{- $objects := list -}}
{{- range regexSplit "(?m)^---$" ($context.Files.Get (last .)) -1 -}}
{{- $object := fromYaml . -}}
{{- if not (hasPrefix "Cluster" $object.kind) -}}
{{- $_ := set $object.metadata "namespace" $context.Release.Namespace -}}
{{- end -}}
{{- range $object.subjects -}}
{{- $_ := set . "namespace" $context.Release.Namespace -}}
{{- end -}}
{{- $objects = append $objects $object -}}
{{- end -}}
{{- dict "objects" $objects | mustToJson -}}
{{- end -}}

{{- define "brickyard.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "brickyard.claim" -}}
{{ .Values.storage.existingClaim | default "brickyard-storage" }}
{{- end -}}

{{- define "brickyard.key" -}}
{{ if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ mustToJson . }}{{ end }}
{{- end -}}

{{/* A value in TOML. Strings, numbers and booleans are written as in JSON. */}}
{{- define "brickyard.toml" -}}
{{- if kindIs "map" . -}}
{ {{- range $i, $key := keys . | sortAlpha }}{{ if $i }}, {{ end }}{{ include "brickyard.key" $key }} = {{ include "brickyard.toml" (get $ $key) }}{{ end -}} }
{{- else if kindIs "slice" . -}}
[ {{- range $i, $each := . }}{{ if $i }}, {{ end }}{{ include "brickyard.toml" $each }}{{ end -}} ]
{{- else -}}
{{- mustToJson . -}}
{{- end -}}
{{- end -}}
